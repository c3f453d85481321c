# An image of fdl itself, with the CPU build of torch: `docker build -t fdl .`, then
# `docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/work" fdl port model.py`
# The base is a tag, not a digest, so that a build gets the security fixes of its day.
FROM python:3.11-slim AS build

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1
WORKDIR /src
COPY constraints.txt hatch_build.py pyproject.toml README.md LICENSE ./
COPY fdl_cli ./fdl_cli
COPY flodl ./flodl
COPY flodl_verify ./flodl_verify
COPY templates ./templates
COPY skills ./skills
# pip compiles the bytecode here: whoever runs the image cannot write it.
RUN python -m venv /opt/venv \
    && /opt/venv/bin/python -m pip install \
        --extra-index-url https://download.pytorch.org/whl/cpu \
        --constraint constraints.txt "torch==2.13.0+cpu" ".[cli]"

FROM python:3.11-slim

LABEL org.opencontainers.image.title="fdl" \
      org.opencontainers.image.licenses="MIT"
ENV PATH=/opt/venv/bin:$PATH \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1
COPY --from=build /opt/venv /opt/venv
WORKDIR /work
USER 1000:1000
ENTRYPOINT ["fdl"]
CMD ["--help"]
