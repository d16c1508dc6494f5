# The slim base of every image we make: Debian, apt made quick and small, certificates, Python and a handful of tools.
ARG BASE
FROM ${BASE}
COPY certificates/ /usr/local/share/ca-certificates/
# Some packages link their manual pages without asking whether the folder is there: those folders stay.
RUN echo force-unsafe-io > /etc/dpkg/dpkg.cfg.d/01-touchstone \
 && for folder in doc man locale info; do echo "path-exclude /usr/share/$folder/*"; done >> /etc/dpkg/dpkg.cfg.d/01-touchstone \
 && echo 'path-include /usr/share/doc/*/copyright' >> /etc/dpkg/dpkg.cfg.d/01-touchstone \
 && printf 'APT::Install-Recommends "false";\nAcquire::Languages "none";\nAcquire::Retries "3";\n' > /etc/apt/apt.conf.d/01-touchstone \
 && mkdir -p $(seq -f /usr/share/man/man%g 8) \
 && rm -f /etc/apt/apt.conf.d/docker-clean \
 && printf 'APT::Keep-Downloaded-Packages "false";\nDir::Cache::pkgcache "";\nDir::Cache::srcpkgcache "";\n' > /etc/apt/apt.conf.d/02-touchstone-cache
# The package lists stay in the image: later layers install without an update, and all of one recipe see one state.
RUN apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
    bash bzip2 ca-certificates file git less make patch procps python3 unzip xz-utils > /dev/null \
 && update-ca-certificates > /dev/null \
 && apt-get clean
