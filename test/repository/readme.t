#!/usr/bin/env perl
# The README is true, and so are the examples of workflows: their queries, pasted in order into psql, give what they say. Links of all pages lead somewhere.
use strict;
use warnings;
use FindBin;
use Test::More;

chdir "$FindBin::Bin/../.." or die $!;

sub slurp {
    my ($path) = @_;
    open(my $in, '<', $path) or die "$path: $!";
    local $/;
    return scalar <$in>;
}

# ```sql ... ``` and, where one follows at once, ``` ... ``` with what comes back.
sub blocks {
    my ($page) = @_;
    my $text = slurp($page);
    my @blocks;
    while ($text =~ /^```sql\n(.*?)^```\n(?:```\n(.*?)^```\n)?/msg) {
        push @blocks, {query => $1, answer => $2};
    }
    cmp_ok(scalar @blocks, '>', 3, "$page has queries");
    return @blocks;
}

# Everything that a page shows comes, in this order; psql says a little more (INSERT 0 1, row counts).
sub paste {
    my ($page) = @_;
    my @blocks = blocks($page);
    my $database = $page =~ s/\W/_/gr;
    system('createdb', $database) == 0 && system('psql', '-Xqd', $database, '-c', 'create extension pawl') == 0 or die 'no database';
    my $script = "$ENV{PAWL_RUN}/$database.sql";
    open(my $out, '>', $script) or die "$script: $!";
    print $out "$blocks[$_]{query}\n\\echo \@\@$_\n" for 0 .. $#blocks;
    close $out;
    my $said = `psql -X -P pager=off -d $database -f '$script' 2>&1`;
    for my $number (0 .. $#blocks) {
        $said =~ s/\A(.*?)^\@\@$number\n//ms or do { fail("$page: query $number was run"); next };
        my @got = map { s/^psql:\S+?:\d+: //r =~ s/\s+$//r } split /\n/, $1;
        my @want = grep { $_ ne '' } map { s/\s+$//r } split /\n/, $blocks[$number]{answer} // '';
        my ($first) = $blocks[$number]{query} =~ /([^\n]*)/;
        if (!@want) {
            ok(!grep(/^ERROR/, @got), "$page runs: $first") or diag(join "\n", @got);
            next;
        }
        my @left = @want;
        for my $line (@got) { shift @left if @left && $line eq $left[0] }
        my @errors = grep { my $line = $_; /^ERROR/ && !grep { $_ eq $line } @want } @got;
        ok(!@left && !@errors, "$page is as it says: $first") or diag("wanted:\n" . join("\n", @want) . "\ngot:\n" . join("\n", @got));
    }
}

SKIP: {
    skip 'no private server: run by make test', 1 unless $ENV{PAWL_RUN};
    paste($_) for 'README.md', 'docs/dag-examples.md';
}

# A heading's anchor, as forges make it.
sub anchors {
    my ($path) = @_;
    return map { lc s/[^\w\s-]//gr =~ s/\s/-/gr } slurp($path) =~ /^#+ +(.*?) *$/mg;
}
for my $page ('README.md', glob('docs/*.md'), glob('examples/*/README.md'), 'test/README.md') {
    my $folder = $page =~ s{[^/]*$}{}r;
    my @broken;
    for my $link (grep { !/^[a-z]+:/ } slurp($page) =~ /\]\(([^)\s]+)\)/g) {
        my ($path, $anchor) = split /#/, $link, 2;
        my $target = $path eq '' ? $page : "$folder$path";
        push @broken, $link if !-e $target || defined $anchor && !grep { $_ eq $anchor } anchors($target);
    }
    is("@broken", '', "links of $page");
}

my ($version) = slurp('extension/pawl.control') =~ /^default_version = '(.*)'/m;
like(slurp('META.json'), qr/"version": "\Q$version\E"/, 'META.json has the version of the control file');
like(slurp('CHANGELOG.md'), qr/^## \Q$version\E\b/m, 'so has the changelog');

done_testing();
