# uv, where COPY --from looks for it and on PATH.
ARG BASE
FROM ${BASE} AS download
RUN (command -v pip > /dev/null || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-pip > /dev/null) \
 && pip install -q --no-cache-dir --target /download --no-deps uv

FROM ${BASE}
COPY --from=download /download/bin/uv /download/bin/uvx /
RUN ln -s /uv /usr/local/bin/uv && ln -s /uvx /usr/local/bin/uvx && uv --version
