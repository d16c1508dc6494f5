# Built from a copy, since the tree stays as it was cloned.
RUN cp -a @workdir@ /tmp/source \
 && cmake -S /tmp/source -B /tmp/build -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr/local -DBUILD_TESTING=OFF \
 && cmake --build /tmp/build --parallel 2 \
 && cmake --install /tmp/build > /dev/null \
 && ldconfig \
 && rm -rf /tmp/source /tmp/build
