"""The package of ported model files, which are in the user's cache folder.

`flodl.hf.ported.modeling_bert` -> ~/.cache/flodl/hf/<key>/modeling_bert.py

The path makes them importable by name, so a pickled model opens in another process of this machine.
"""

from flodl.hf.cache import cache_folder

__path__.append(str(cache_folder()))
