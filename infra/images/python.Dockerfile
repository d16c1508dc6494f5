# Python: a virtual environment first on PATH, so that pip installs into the image without fighting Debian's own packages.
ARG BASE
FROM ${BASE}
RUN DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
    gcc libc6-dev python3 python3-dev python3-pip python3-venv > /dev/null \
 && apt-get clean \
 && python3 -m venv /opt/venv
ENV VIRTUAL_ENV=/opt/venv PATH=/opt/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
