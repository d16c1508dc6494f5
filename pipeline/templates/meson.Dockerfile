# Built from a copy, since the tree stays as it was cloned.
RUN cp -a @workdir@ /tmp/source \
 && meson setup /tmp/build /tmp/source --prefix=/usr/local --buildtype=release > /dev/null \
 && meson compile -C /tmp/build -j 2 \
 && meson install -C /tmp/build > /dev/null \
 && ldconfig \
 && rm -rf /tmp/source /tmp/build
