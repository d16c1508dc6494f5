# Go: Debian's toolchain. The proxy is off, since modules come from the tree or from Debian's -dev packages.
ARG BASE
FROM ${BASE}
RUN DEBIAN_FRONTEND=noninteractive apt-get install -y -qq golang-go > /dev/null && apt-get clean
ENV GOPROXY=off GOFLAGS=-buildvcs=false
