"""The completion script of each shell, and its place for the shell."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, final

Shell = Literal["bash", "zsh", "fish", "powershell"]
SHELLS: Final[tuple[Shell, ...]] = ("bash", "zsh", "fish", "powershell")

# Every script calls `fdl` at TAB only, so a shell starts no process because of it.
_BASH: Final = r"""# bash completion for fdl
_fdl() {
    local line files=0
    COMPREPLY=()
    while IFS= read -r line; do
        if [[ $line == :files ]]; then
            files=1
        elif [[ -n $line ]]; then
            COMPREPLY+=("$(printf '%q' "$line")")
        fi
    done < <(fdl __complete bash "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    if [[ $files == 1 ]]; then
        compopt -o filenames 2>/dev/null
        local word="${COMP_WORDS[COMP_CWORD]}"
        [[ $word == = ]] && word=
        while IFS= read -r line; do
            COMPREPLY+=("$line")
        done < <(compgen -f -- "$word")
    fi
}
complete -F _fdl fdl
"""
_ZSH: Final = r"""#compdef fdl
_fdl() {
    local line files=0
    local -a described
    for line in "${(@f)$(fdl __complete zsh "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        if [[ $line == :files ]]; then
            files=1
        elif [[ -n $line ]]; then
            local value="${line%%$'\t'*}" summary=""
            [[ $line == *$'\t'* ]] && summary="${line#*$'\t'}"
            described+=("${value//:/\\:}${summary:+:$summary}")
        fi
    done
    (( ${#described} )) && _describe -V 'fdl' described
    (( files )) && _files
    return 0
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _fdl "$@"
else
    compdef _fdl fdl
fi
"""
_FISH: Final = r"""# fish completion for fdl
function __fdl_complete
    set -l answer (fdl __complete fish (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)
    if contains -- :files $answer
        __fish_complete_path (commandline -ct)
    end
    for line in $answer
        test "$line" != :files; and printf '%s\n' $line
    end
end
complete -c fdl -f -a '(__fdl_complete)'
"""
_POWERSHELL: Final = r"""# PowerShell completion for fdl
Register-ArgumentCompleter -Native -CommandName fdl -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = @($commandAst.CommandElements | Select-Object -Skip 1 |
        Where-Object { $_.Extent.EndOffset -lt $cursorPosition } | ForEach-Object {
            if ($_ -is [System.Management.Automation.Language.StringConstantExpressionAst]) {
                $_.Value
            } else { "$_" }
        })
    $current = if ($wordToComplete) { $wordToComplete } else { '""' }
    foreach ($line in (& fdl __complete powershell @words $current 2>$null)) {
        if ($line -eq ':files') {
            [System.Management.Automation.CompletionCompleters]::CompleteFilename($wordToComplete)
        } elseif ($line) {
            $value, $summary = $line -split "`t", 2
            if (-not $summary) { $summary = $value }
            [System.Management.Automation.CompletionResult]::new(
                $value, $value, 'ParameterValue', $summary)
        }
    }
}
"""
SCRIPTS: Final[Mapping[Shell, str]] = {
    "bash": _BASH,
    "zsh": _ZSH,
    "fish": _FISH,
    "powershell": _POWERSHELL,
}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The place where a shell finds the script by itself; `todo` is left for the person, if anything is."""

    path: Path
    todo: str


def place_for(shell: Shell, environ: Mapping[str, str], home: Path) -> Place:
    """Return where the script of a shell goes; no file of the person is ever edited."""
    data = _folder(environ, "XDG_DATA_HOME", home / ".local" / "share")
    config = _folder(environ, "XDG_CONFIG_HOME", home / ".config")
    if shell == "bash":
        return Place(path=data / "bash-completion" / "completions" / "fdl", todo="")
    if shell == "fish":
        return Place(path=config / "fish" / "completions" / "fdl.fish", todo="")
    if shell == "zsh":
        folder = data / "zsh" / "site-functions"
        todo = f"add this line to ~/.zshrc, before `compinit`: fpath=({folder} $fpath)"
        return Place(path=folder / "_fdl", todo=todo)
    path = config / "powershell" / "fdl-completion.ps1"
    return Place(path=path, todo=f"add this line to your $PROFILE: . '{path}'")


def _folder(environ: Mapping[str, str], name: str, default: Path) -> Path:
    value = environ.get(name, "")
    return Path(value) if value.startswith("/") else default
