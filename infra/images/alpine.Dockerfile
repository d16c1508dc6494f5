# What stands in for Alpine: Debian with an `apk` that installs Debian's packages, and the user commands of busybox.
ARG BASE
FROM ${BASE}
RUN DEBIAN_FRONTEND=noninteractive apt-get install -y -qq adduser wget > /dev/null && apt-get clean
COPY apk.py packages.txt /usr/local/lib/apk/
COPY users.py /usr/local/lib/apk/
RUN chmod 755 /usr/local/lib/apk/*.py \
 && ln -s /usr/local/lib/apk/apk.py /sbin/apk \
 && for name in adduser addgroup; do ln -s /usr/local/lib/apk/users.py /usr/local/sbin/$name; done \
 && ln -sf /bin/sh /bin/ash \
 && apk --version
