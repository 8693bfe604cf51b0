# minisign, tar, the command line, static files.
proteus_test(test_minisign SOURCES test_minisign.c LIBS proteus_core)
proteus_test(test_tar SOURCES test_tar.c LIBS proteus_core)
