# The main sources become one jar. Test sources need frameworks of their own versions, and a module descriptor would hide
# the libraries of the class path.
ENV CLASSPATH=.:/usr/local/lib/@name@.jar:/usr/share/java/*
RUN roots=src/main/java; \
    if [ ! -d "$roots" ]; then roots=$(find . -type d -path '*/src/main/java' | sort); fi; \
    if [ -z "$roots" ]; then roots=$(for folder in src/java java src .; do if [ -d "$folder" ]; then echo "$folder"; break; fi; done); fi; \
    find $roots -name '*.java' ! -name module-info.java ! -path '*/test/*' ! -path '*/tests/*' > /tmp/sources \
 && mkdir /tmp/classes \
 && javac -nowarn -proc:none -encoding UTF-8 -cp '/usr/share/java/*' -d /tmp/classes @/tmp/sources \
 && for folder in src/main/resources; do if [ -d "$folder" ]; then cp -a "$folder/." /tmp/classes/; fi; done \
 && jar --create --file /usr/local/lib/@name@.jar -C /tmp/classes . \
 && rm -rf /tmp/classes /tmp/sources
