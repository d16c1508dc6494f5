# Bun, beside the tools of JavaScript.
ARG BASE
FROM ${BASE}
RUN npm install --loglevel=error --global bun && bun --version
