# Modules come from vendor/ where there is one, else from the configured proxy; they stay in the module cache.
ENV GOBIN=/usr/local/bin
RUN if ! command -v gcc > /dev/null; then go env -w CGO_ENABLED=0; fi \
 && if [ ! -d vendor ]; then go mod download; fi \
 && go build ./... \
 && go list -f '{{if eq .Name "main"}}{{.Dir}}{{end}}' ./... > /tmp/programs \
 && while read -r folder; do if [ -n "$folder" ]; then (cd "$folder" && go install .) || exit 1; fi; done < /tmp/programs \
 && rm /tmp/programs
