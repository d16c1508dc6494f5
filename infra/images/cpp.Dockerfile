# C++: compilers, make and CMake.
ARG BASE
FROM ${BASE}
RUN DEBIAN_FRONTEND=noninteractive apt-get install -y -qq cmake g++ gcc libc6-dev make pkg-config > /dev/null \
 && apt-get clean
