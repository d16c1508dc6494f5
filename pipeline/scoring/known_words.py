"""Words that mean something by themselves in a language: what no file has to define or import."""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


JAVA = _words(
    "String Object Integer Long Double Float Boolean Character Byte Short Number Math System Thread Runnable "
    "Exception RuntimeException Error Throwable Override Deprecated SuppressWarnings FunctionalInterface "
    "SafeVarargs Class Void Iterable Comparable CharSequence StringBuilder StringBuffer Enum Record Process "
    "ProcessBuilder Runtime Cloneable AutoCloseable IllegalArgumentException IllegalStateException "
    "NullPointerException IndexOutOfBoundsException UnsupportedOperationException ClassCastException "
    "InterruptedException NumberFormatException ArithmeticException ClassNotFoundException AssertionError "
    "StackTraceElement ThreadLocal ClassLoader Package"
)

JAVASCRIPT = _words(
    "if for while switch catch function return typeof await async new void delete in of super this import "
    "require Array Object String Number Boolean Date Math JSON Promise RegExp Error TypeError RangeError "
    "SyntaxError Map Set WeakMap WeakSet Symbol Proxy Reflect BigInt Intl URL URLSearchParams Buffer "
    "Uint8Array ArrayBuffer Function parseInt parseFloat isNaN isFinite encodeURIComponent decodeURIComponent "
    "setTimeout clearTimeout setInterval clearInterval setImmediate console process module exports global "
    "globalThis window document navigator location localStorage sessionStorage history alert confirm fetch "
    "event arguments undefined NaN Infinity self Event Element XMLHttpRequest requestAnimationFrame describe "
    "it test expect beforeEach afterEach before after jest define"
)

PHP = _words(
    "self static parent array string int float bool mixed void callable iterable object null false true never "
    "exception throwable error closure stdclass iterator arrayaccess countable traversable generator"
)

C = _words(
    "if for while switch return sizeof defined else do case goto int char void long short unsigned signed "
    "float double static const struct union enum typedef extern inline register volatile auto bool class "
    "public private protected template typename namespace using new delete this throw try catch operator "
    "virtual override final NULL"
)

INSTRUCTIONS = _words(
    "FROM RUN CMD LABEL MAINTAINER EXPOSE ENV ADD COPY ENTRYPOINT VOLUME USER WORKDIR ARG ONBUILD STOPSIGNAL "
    "HEALTHCHECK SHELL"
)

VOID = _words("area base br col embed hr img input link meta param source track wbr !doctype")

OPTIONAL = _words("p li dt dd tr td th thead tbody tfoot option optgroup colgroup html head body rt rp")
