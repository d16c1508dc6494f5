# The interpreter that judges: Debian's Python with its own loader and libraries and pytest, relocatable under /runtime.
ARG BASE
FROM ${BASE}
RUN DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3 python3-pytest > /dev/null
COPY assemble.sh verifier_runner.py /build/
RUN bash /build/assemble.sh /runtime && rm -rf /build
