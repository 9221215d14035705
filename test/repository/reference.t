#!/usr/bin/env bash
# Every public function, procedure, table and view stands in docs/reference.md: test/expected/stability.out has them as
# the catalog has (regress stability compares), by schema.
cd "$(dirname "$0")/../.." || exit 1
count=0
none() {
    count=$((count + 1))
    if [ -z "$2" ]; then echo "ok $count - $1"; else echo "not ok $count - $1"; sed 's/^/# /' <<<"$2"; fi
}

# missing <reference>: names that are not in the section of their schema; those of the kernel may stand anywhere. Tables
# that only a function or a view writes and reads are in docs/internals.md or the page of the pack.
missing() {
    perl -e '
        my ($reference, $public) = @ARGV;
        local $/;
        open(my $in, "<", $reference) or die; my $text = <$in>;
        open($in, "<", $public) or die; my $names = <$in>;
        my %section = map { /\((pawl_\w+)\)/ ? ($1 => $_) : () } split /^## /m, $text;
        my %seen;
        while ($names =~ /^(?:function|procedure) (pawl\w*)\.(\w+)\(/mg) {
            my ($schema, $name) = ($1, $2);
            my $where = $schema eq "pawl" ? $text : $section{$schema} // "";
            print "$schema.$name\n" if $where !~ /(?<![\w])\Q$name\E(?!\w)/ && !$seen{"$schema.$name"}++;
        }' "$1" test/expected/stability.out
}

none "every public function stands in the reference" "$(missing docs/reference.md)"
count=$((count + 1))
if [ "$(grep -cE '^(function|procedure) pawl' test/expected/stability.out)" -gt 200 ]; then
    echo "ok $count - the list of public functions is there"
else
    echo "not ok $count - the list of public functions is there"
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed 's/work_sql_tasks/work_other_tasks/g; s/`set_aside`//' docs/reference.md >"$folder/reference.md"
none "one that is missing is seen" \
    "$([ "$(missing "$folder/reference.md")" = pawl_saga.work_sql_tasks ] || echo "not seen")"
none "the table of flows that are set aside is there too" \
    "$(grep -q '`set_aside`' docs/reference.md || echo "pawl_saga.set_aside")"
echo "1..$count"
