# Built from a copy, since the tree stays as it was cloned.
RUN cp -a @workdir@ /tmp/source && cd /tmp/source \
 && if [ ! -f configure ]; then \
      if [ -f autogen.sh ]; then NOCONFIGURE=1 sh ./autogen.sh; else autoreconf --force --install; fi; \
    fi \
 && sh ./configure --prefix=/usr/local > /dev/null \
 && make -j2 \
 && make install > /dev/null \
 && ldconfig \
 && rm -rf /tmp/source
