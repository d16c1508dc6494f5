# The interpreter that judges: Debian's Python with its own loader and libraries and pytest, relocatable under /runtime.
ARG BASE
FROM ${BASE} AS assembly
RUN DEBIAN_FRONTEND=noninteractive apt-get install -y -qq gcc libc6-dev python3 python3-pytest > /dev/null
COPY assemble.sh patch.py launch.c verifier_runner.py verifier_guards.py verifier_conditions.py /build/
RUN bash /build/assemble.sh /runtime
# The image is kept: only what judges, above a base that others share.
FROM ${BASE}
COPY --from=assembly /runtime /runtime
