#!/bin/sh
# Whether what tests/defences.sh takes away is still there to be taken: each change of the tables applies to each of its files, each part of
# it to one of them at least, no name stands twice, and the cases are in the corpus, or the tests in the tree. Builds nothing.
# Usage: check_defences.sh SOURCE_DIR
cd "$1" || exit 1
command -v perl >/dev/null || exit 77
perl - tests/defences.txt tests/defences_card.txt tests/defences_tests.txt <<'PERL'
use strict;
my ($rows, $failures, %names) = (0, 0);
sub fail { print STDERR "@_\n"; $failures++; }
sub content { my ($name) = @_; local $/; open(my $f, '<', $name) or return undef; my $all = <$f>; return $all; }
for my $table (@ARGV) {
    open(my $list, '<', $table) or die "$table: $!";
    while (my $row = <$list>) {
        chomp $row;
        next if $row eq '' or $row =~ /^#/;
        my ($name, $files, $change, $cases) = split /\t/, $row;
        $rows++;
        $names{$name}++ and $table !~ /card/ and fail("$table: $name: stands twice");
        my %changed;
        for my $part (split /;\s*(?=s\/)/, $change) {
            my $applied = 0;
            for my $file (split /,/, $files) {
                my $was = content($file);
                defined $was or fail("$table: $name: there is no $file"), next;
                local $_ = $was;
                eval "$part; 1" or fail("$table: $name: $part: $@");
                $applied = $changed{$file} = 1 if $_ ne $was;
            }
            $applied or fail("$table: $name: applies to none of its files: $part");
        }
        $changed{$_} or fail("$table: $name: nothing of the change applies to $_") for split /,/, $files;
        if ($table =~ /tests\.txt/) {
            my ($test) = split / /, $cases;
            -f "tests/$test.c" or fail("$table: $name: there is no test $test");
            next;
        }
        for my $case (split /,/, $cases) {
            -d "tests/attacks/$case" or fail("$table: $name: there is no attack $case");
        }
    }
}
print "$rows defences, $failures failures\n";
exit($failures || $rows < 20 ? 1 : 0);
PERL
