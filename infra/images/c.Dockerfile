# C: compiler, make and the autotools.
ARG BASE
FROM ${BASE}
RUN DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
    autoconf automake gcc libc6-dev libtool make pkg-config > /dev/null \
 && apt-get clean
