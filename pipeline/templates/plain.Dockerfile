# Nothing to build was recognised: the tools of the language and the tree are all there is.
