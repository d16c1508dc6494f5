# C: compiler, make, the autotools and CMake.
ARG BASE
FROM ${BASE}
RUN DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
    autoconf automake cmake gcc libc6-dev libtool make pkg-config > /dev/null \
 && apt-get clean
