# Java: a headless JDK and Maven.
ARG BASE
FROM ${BASE}
ARG VERSION=17
RUN DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "openjdk-$VERSION-jdk-headless" maven > /dev/null \
 && apt-get clean \
 && mkdir -p /opt/java \
 && ln -s "/usr/lib/jvm/java-$VERSION-openjdk-$(dpkg --print-architecture)" /opt/java/openjdk
COPY mavenrc /etc/mavenrc
ENV JAVA_HOME=/opt/java/openjdk PATH=/opt/java/openjdk/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
# Asked once, and no matter what it answers: whoever watches the way out learns which registry serves jars.
RUN javac -version && cd /tmp && (timeout 60 mvn -q -B help:help > /dev/null 2>&1; rm -rf /root/.m2)
