#!/usr/bin/env perl
# The README is true, and so are the examples of workflows: their queries, pasted in order into psql, give what they
# say. Links of all pages lead somewhere.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../tap";
use Page;
use Test::More;

chdir "$FindBin::Bin/../.." or die $!;

sub slurp {
    my ($path) = @_;
    open(my $in, '<', $path) or die "$path: $!";
    local $/;
    return scalar <$in>;
}

sub paste {
    my ($page) = @_;
    my $database = $page =~ s/\W/_/gr;
    my $text = slurp($page);
    my $extension = $text =~ /^create extension pawl;/m ? '' : 'create extension pawl';
    system('createdb', $database) == 0 && system('psql', '-Xqd', $database, '-c', $extension) == 0 or die 'no database';
    gives_what_it_says(name => $page, text => $text, psql => ['psql', '-d', $database],
        folder => $ENV{PAWL_RUN});
}

SKIP: {
    skip 'no private server: run by make test', 1 unless $ENV{PAWL_RUN};
    paste($_) for 'README.md', 'docs/dag-examples.md', 'docs/testing.md', 'docs/start.md', 'docs/drivers.md';
}

# A heading's anchor, as forges make it.
sub anchors {
    my ($path) = @_;
    return map { lc s/[^\w\s-]//gr =~ s/\s/-/gr } slurp($path) =~ /^#+ +(.*?) *$/mg;
}
for my $page ('README.md', glob('docs/*.md'), glob('docs/internals/*.md'), glob('examples/*/README.md'),
    'test/README.md', 'bench/README.md', glob('client/*/README.md')) {
    my $folder = $page =~ s{[^/]*$}{}r;
    my @broken;
    for my $link (grep { !/^[a-z]+:/ } slurp($page) =~ /\]\(([^)\s]+)\)/g) {
        my ($path, $anchor) = split /#/, $link, 2;
        my $target = $path eq '' ? $page : "$folder$path";
        push @broken, $link if !-e $target || defined $anchor && !grep { $_ eq $anchor } anchors($target);
    }
    is("@broken", '', "links of $page");
}

# The programs of the first page are those of examples/start, which tests compile and run.
my $start = slurp('docs/start.md');
for my $file (glob('examples/start/*')) {
    my $text = slurp($file);
    like($start, qr/^\Q$text\E/m, "docs/start.md shows $file as it is");
}

my ($version) = slurp('extension/pawl.control') =~ /^default_version = '(.*)'/m;
like(slurp('META.json'), qr/"version": "\Q$version\E"/, 'META.json has the version of the control file');
like(slurp('CHANGELOG.md'), qr/^## \Q$version\E\b/m, 'so has the changelog');

done_testing();
