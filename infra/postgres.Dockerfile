# PostgreSQL from Debian's package, on the same base as everything else. It never runs as root.
ARG BASE=debian:bookworm-slim
FROM ${BASE}
RUN useradd --uid 10002 --home-dir /var/lib/postgresql --create-home postgres \
 && apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql-common > /dev/null \
 && sed -i 's/^#*create_main_cluster.*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql-15 > /dev/null \
 && rm -rf /var/lib/apt/lists/* \
 && mkdir /var/lib/postgresql/data && chown postgres /var/lib/postgresql/data
COPY infra/postgres.sh /usr/local/bin/
ENV PATH=/usr/lib/postgresql/15/bin:$PATH
USER postgres
STOPSIGNAL SIGINT
ENTRYPOINT ["postgres.sh"]
