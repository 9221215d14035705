# Tokens in the console: after sign-out none is left in the storage, the address or the history, and one in an address
# is neither accepted nor kept. A machine whose name browsers take out of addresses has a page.
use strict;
use warnings;
use Browser;
use JSON::PP;
use PawlApi;
use PawlPrograms;
use PawlTest;
use Test::More;

my $node = api_cluster('sign_out', qw(pawl_dag));
$node->safe_psql('postgres', <<'SQL');
select pawl.define('..', 'stateDiagram-v2
    [*] --> here
    here --> there : leave
    there --> [*]');
create schema shop;
create table shop.orders (id text primary key, state text not null default 'here');
select pawl.enforce('shop.orders', 'state', '..'), pawl.enable_log('shop.orders', 'state');
insert into shop.orders (id) values ('of-miss-private');
grant usage on schema shop to pawl_reader;
grant select on all tables in schema shop to pawl_reader;
SQL
my $token = make_token($node, 'pawl_reader', 'rita', '{read}');
my $api = begin_api($node, '--sql-workers', '0');
my $root = "http://127.0.0.1:$api->{port}";

like(ask('GET', "/v1/session?$_=$token")->{status}, qr/^40[01]$/, "the API takes no $_ from an address")
	for qw(token access_token api_key bearer ticket);

my $browser = Browser->new;
my $whole = 0;
END { local ($?, $@); diag($browser->tells) if $browser && !$whole }
sub page { my ($path) = @_; $browser->run('location.hash = arguments[0]', $path); return }

# Whatever the browser keeps for the page, as one text; not its own note of what was typed, which no page can change.
sub kept
{
	my $history = $browser->devtools('Page.getNavigationHistory');
	return encode_json(
		[ $browser->run(
			q(return [JSON.stringify({ ...localStorage }), JSON.stringify({ ...sessionStorage }), document.cookie,
              location.href, window.name,
		JSON.stringify(history.state), document.documentElement.outerHTML,
		...[...document.querySelectorAll('input')].map((e) => e.value)])),
		[ map { @$_{qw(url title)} } $history->{entries}->@* ] ]);
}

for my $address ("?token=$token", "?access_token=$token#/tasks", "#$token", "#token=$token", "#/?token=$token",
	"#/tasks?state=error&access_token=$token")
{
	$browser->go('about:blank');
	$browser->go("$root/console/$address");
	$browser->find('input[name=token]');
	unlike(kept(), qr/\Q$token\E/, 'not kept: ' . $address =~ s/\Q$token\E/.../r);
}
like($browser->run('return location.hash'), qr{^#/tasks\?state=error$}, 'the rest of an address stays');
page("#/tasks?token=$token");
becomes(sub { kept() =~ /\Q$token\E/ ? 'kept' : 'gone' }, 'gone', 'an address that comes later is cleaned, too');
ok(scalar(() = $browser->all('input[name=token]')), 'and none has signed in');

$browser->type('input[name=token]', $token);
$browser->click('button[type=submit]');
$browser->find('nav');
like(kept(), qr/\Q$token\E/, 'a token is kept while it is in use, so the next looks are looks at the right places');

page('#/machines');
$browser->find('td a', '..');
$browser->click('td a', '..');
ok($browser->sees('there', 'main .mermaid'), 'the machine .. has a page');
$browser->call('POST', '/refresh', {});
ok($browser->sees('there', 'main .mermaid'), 'also when it is loaded again');
page('#/row?relation=shop.orders&key=of-miss-private');
ok($browser->sees('here', '.timeline'), 'a row is shown');

$browser->click('button', 'Sign out');
$browser->find('input[name=token]');
unlike(kept(), qr/\Q$token\E/, 'signed out: the token is nowhere');
is($browser->run('return location.hash'), '#/', 'nor is the address of the row in the bar');
unlike($browser->text('body'), qr/private/, 'nothing private is shown');
for my $step (1 .. 3)
{
	$browser->call('POST', '/back', {});
	$browser->find('input[name=token]');
	unlike($browser->text('body'), qr/private|there/, "nor $step back");
}
$browser->call('POST', '/forward', {});
$browser->call('POST', '/refresh', {});
$browser->find('input[name=token]');
unlike(kept(), qr/\Q$token\E/, 'nor loaded again');
unlike($api->{run}{err}, qr/\Q$token\E/, 'no log has it');
$whole = 1;
$browser->end;
is(end_program($api->{run}, 'TERM'), 0, 'the daemon ends');
no_crash($node);
done_testing();
