proteus_test(test_toolkit SOURCES test_toolkit.c LIBS proteus_device proteus_core LABELS device)
