# Programs go to /usr/local/bin; libraries lie in the module cache, in vendor/ or in Debian's folders. What `go env -w`
# wrote counts, since an empty variable is none.
ENV GOFLAGS="" GOTOOLCHAIN=local
RUN cd @project@ && python3 /tmp/build_go.py @import_path@ @options@ @libraries@ \
 && rm -rf /tmp/build_go.py
