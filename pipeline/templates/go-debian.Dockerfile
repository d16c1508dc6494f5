# Debian's Go libraries lie in a GOPATH, without versions. The tree stands there under its import path, and so does every
# library whose module path ends in a version that its folder lacks.
ENV GO111MODULE=off GOPATH=/root/go:/usr/share/gocode GOBIN=/usr/local/bin
RUN mkdir -p "$(dirname /root/go/src/@import_path@)" && ln -s @workdir@ /root/go/src/@import_path@ \
 && find /usr/share/gocode/src -name go.mod | while read -r file; do \
      module=$(sed -n 's/^module  *"\{0,1\}\([^" ]*\).*/\1/p' "$file" | head -n 1); \
      if [ -n "$module" ] && [ ! -e "/usr/share/gocode/src/$module" ] && [ ! -e "/root/go/src/$module" ]; then \
        mkdir -p "$(dirname "/root/go/src/$module")" && ln -s "$(dirname "$file")" "/root/go/src/$module"; \
      fi; \
    done
RUN if ! command -v gcc > /dev/null; then go env -w CGO_ENABLED=0; fi \
 && go build ./... \
 && go list -f '{{if eq .Name "main"}}{{.Dir}}{{end}}' ./... > /tmp/programs \
 && while read -r folder; do if [ -n "$folder" ]; then (cd "$folder" && go install .) || exit 1; fi; done < /tmp/programs \
 && rm /tmp/programs
