# The files of the console as pawld serves them: nothing secret, nothing foreign, small, cached, compressed; and a
# daemon that was built without them.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use File::Temp;
use HTTP::Tiny;
use PawlApi;
use PawlPrograms;
use PawlTest;
use Test::More;

my $node = api_cluster('main');
my $api = begin_api($node);
my $root = "http://127.0.0.1:$api->{port}";
my $http = HTTP::Tiny->new(max_redirect => 0);
sub fetch
{
	my ($path, %headers) = @_;
	return $http->get("$root$path", { headers => { 'Accept-Encoding' => 'gzip', %headers } })
}
sub plain
{
	my ($got) = @_;
	return $got->{content} if ($got->{headers}{'content-encoding'} // '') ne 'gzip';
	require IO::Uncompress::Gunzip;
	IO::Uncompress::Gunzip::gunzip(\$got->{content}, \my $text) or die 'not gzip';
	return $text;
}

for my $from ('/', '/console')
{
	my $got = fetch($from);
	is("$got->{status} $got->{headers}{location}", '302 /console/', "$from leads to the console");
}
my $page = fetch('/console/');
is($page->{status}, 200, 'the page needs no token');
like($page->{headers}{'content-type'}, qr{^text/html}, 'it is HTML');
my $policy = $page->{headers}{'content-security-policy'};
is(ref $policy, '', 'there is one policy');
like($policy, qr/default-src 'none'/, 'which forbids what it does not allow');
like($policy, qr/script-src 'self';/, 'scripts come from here alone');
like($policy, qr/connect-src 'self';/, 'and requests go nowhere else');
like($policy, qr/frame-ancestors 'none'/, 'no page can frame it');
is($page->{headers}{'x-content-type-options'}, 'nosniff', 'types are not guessed');
is($page->{headers}{'cache-control'}, 'no-cache', 'the page is requested again');
is(fetch('/console/', 'If-None-Match' => $page->{headers}{etag})->{status}, 304,
	'and not sent again when it has not changed');

# Everything that the page leads to, from file to file.
my (%files, $bytes, $first);
my @open = ('index.html');
while (defined(my $name = shift @open))
{
	next if $files{$name};
	my $got = fetch("/console/$name");
	is($got->{status}, 200, "$name is served");
	$bytes += length $got->{content};
	my $text = $files{$name} = plain($got);
	next if $name eq 'index.html';
	like($got->{headers}{'cache-control'}, qr/immutable/, "$name may be kept for ever") if $name =~ m{^assets/};
	next unless $name =~ /\.js$/;
	push @open, map { "assets/$_" } $text =~ m{"\./([\w.-]+\.js)"}g;
}
continue
{
	push @open, $files{$name} =~ m{(?:src|href)="\./([\w./-]+)"}g if $name eq 'index.html' && !$first++;
}
cmp_ok(scalar(keys %files), '>', 8, 'there are scripts, styles and an icon');
cmp_ok($bytes, '<', 1_000_000, "all together are under 1 MB as sent ($bytes bytes)");
my ($main) = grep { m{/main-.*\.js$} } keys %files;
my %eager = ($main => 1);
my @static = $main;
while (defined(my $name = shift @static))
{
	push @static, grep { !$eager{$_}++ } map { "assets/$_" } $files{$name} =~ m{(?:from|import)"\./([\w.-]+\.js)"}g
}
my $eager = 0;
$eager += length $files{$_} for keys %eager;
ok((grep { /mermaid/ } keys %files), 'Mermaid is there');
ok(!(grep { /mermaid/ } keys %eager), 'but is only fetched where it draws');
cmp_ok($eager, '<', 200_000, "what is fetched at first is small ($eager bytes, not compressed)");
is(join(' ',
		grep { $files{$_} =~ m{(?:src|href)=["']?https?://|\@import|url\(["']?https?:} } grep { /\.(html|css)$/ }
			keys %files),
	'', 'no file asks for one from elsewhere');

is(fetch("/console/$_")->{status}, 404, "$_ is not there")
	for 'nothing.js', '../healthz', '%2e%2e/etc/passwd', 'assets/';
my $expanded = $http->request('GET', "$root/console/$main", { headers => { 'Accept-Encoding' => 'identity' } });
is($expanded->{status}, 200, 'a client that does not accept gzip is served, too');
is($expanded->{headers}{'content-encoding'}, undef, 'by what is not compressed');
ok($expanded->{content} eq $files{$main}, 'and the same');
is($http->request('HEAD', "$root/console/")->{headers}{'content-length'}, length $files{'index.html'}, 'also by HEAD');
isnt($http->request('GET', "$root/console/")->{headers}{etag}, $page->{headers}{etag}, 'under a tag of its own');

# The pure parts have unit tests of their own, where the console was built.
my $work = "$ENV{PAWL_TOP}/build/programs/client/console/work";
SKIP: {
	skip 'the console was not built here', 1 unless -d "$work/node_modules";
	my $said = `cd $work && node scripts/test.mjs 2>&1`;
	is($?, 0, 'the unit tests of the console pass') or diag($said);
}

# Without Node.
my $folder = File::Temp->newdir;
is(`cd / && PAWL_CONSOLE=off $ENV{PAWL_TOP}/scripts/build-console $folder`,
	"pawld is built without its console: it was asked to\n", 'without npm the build says so');
{
	open(my $program, '>', "$folder/main.cpp") or die $!;
	print $program qq(#include <cstdio>\n#include "console.hpp"\nint main() { )
		. qq(std::printf("%d %d", pawl::has_console(), pawl::console_file("index.html") != nullptr); }\n);
}
is(system('g++', '-std=c++20', "-I$ENV{PAWL_TOP}/client/http/console", "-I$folder/parts", '-o', "$folder/main",
	"$folder/main.cpp", "$ENV{PAWL_TOP}/client/http/console/files.cpp"), 0, 'goes on all the same');
is(`$folder/main`, '0 0', 'and pawld knows that it has none');

is(end_program($api->{run}, 'TERM'), 0, 'the daemon ends');
done_testing();
