# What compiles the native parts of packages: compilers, build tools, and the headers of the libraries they usually need.
ARG BASE
FROM ${BASE}
RUN DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
    autoconf automake curl default-libmysqlclient-dev g++ gcc gettext gnupg jq libbz2-dev libc6-dev libcurl4-openssl-dev \
    libevent-dev libffi-dev libgdbm-dev libglib2.0-dev libgmp-dev libjpeg-dev liblzma-dev libncurses-dev libpng-dev \
    libpq-dev libreadline-dev libsqlite3-dev libssl-dev libtool libwebp-dev libxml2-dev libxslt1-dev libyaml-dev make \
    openssh-client pkg-config python3 wget zlib1g-dev > /dev/null \
 && apt-get clean
