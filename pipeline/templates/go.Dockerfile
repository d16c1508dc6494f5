# Programs go to /usr/local/bin; libraries lie in the module cache, in vendor/ or in Debian's GOPATH.
ENV GOTOOLCHAIN=local GOFLAGS=-buildvcs=false
RUN cd @project@ && python3 /tmp/build_go.py @import_path@ @options@ @libraries@ \
 && rm -rf /tmp/build_go.py
