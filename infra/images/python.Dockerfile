# Python: a virtual environment in /usr/local, where the interpreter of everybody's images is, so that pip installs
# without fighting Debian's own packages.
ARG BASE
FROM ${BASE}
RUN DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
    gcc libc6-dev python3 python3-dev python3-pip python3-venv > /dev/null \
 && apt-get clean \
 && python3 -m venv /usr/local
# No matter whether it can be had: whoever watches the way out learns which registry serves packages.
RUN timeout 60 pip install -q --retries 0 --no-cache-dir --upgrade pip setuptools wheel || echo "pip stays as it is"
# Tools that look for a system-wide Python find Debian's, whose packages lie apart from ours.
ENV UV_BREAK_SYSTEM_PACKAGES=1
