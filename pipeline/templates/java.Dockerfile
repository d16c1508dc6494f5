# The main sources become one jar, beside the tree.
ENV CLASSPATH=.:/usr/local/lib/@name@.jar:/usr/share/java/*
RUN cd @project@ && CLASSPATH= python3 /tmp/build_java.py /usr/local/lib/@name@.jar @options@ \
 && rm -rf /tmp/build_java.py /tmp/classes /tmp/sources
