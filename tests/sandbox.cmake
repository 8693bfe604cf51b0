proteus_test(test_sandbox SOURCES test_sandbox.c LIBS proteus_sandbox proteus_core LABELS sandbox TIMEOUT 120)
proteus_test(test_sandbox_reach SOURCES test_sandbox_reach.c LIBS proteus_sandbox proteus_core LABELS sandbox TIMEOUT 180)
proteus_test(test_sandbox_cgroup SOURCES test_sandbox_cgroup.c LIBS proteus_sandbox proteus_core LABELS sandbox TIMEOUT 120)
