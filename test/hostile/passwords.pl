# Passwords in connection strings and URLs of brokers: nothing that a program prints, logs
# or serves has them, however wrong the string is.
use strict;
use warnings;
use IPC::Run;
use PawlPrograms;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $secret = 'hunter2secret';
my @targets = (
	"postgresql://pawl:$secret\@localhost:notaport/shop",
	"postgresql://pawl:$secret\@\@127.0.0.1:1/shop",
	"postgresql://pawl:x\@$secret\@127.0.0.1:1/shop",
	"postgresql://pawl:12/$secret\@127.0.0.1:1/shop",
	"postgresql://pawl:a/$secret\@127.0.0.1:1/shop",
	"postgresql://pawl:a?$secret\@127.0.0.1:1/shop",
	"postgresql://pawl:a#$secret\@127.0.0.1:1/shop",
	"postgresql://pawl:%zz$secret\@127.0.0.1:1/shop",
	"postgresql://[pawl:$secret\@127.0.0.1:1/shop",
	"postgresql://pawl:$secret\@127.0.0.1:1/shop",
	"postgresql://127.0.0.1:1/shop?password=$secret",
	"postgresql://127.0.0.1:1/shop?passwort=$secret",
	"host=127.0.0.1 port=1 password=$secret",
	"host=127.0.0.1 port=1 password = '$secret",
	"host=127.0.0.1 port=1 password='a\\' $secret'",
	"host=127.0.0.1 port=1 passwort=$secret",
	"host=127.0.0.1 password=a $secret",
	"pawl:$secret\@localhost",
	$secret,
);

# Whatever it says on both ways, and how it ends.
sub said
{
	my ($environment, @command) = @_;
	local %ENV = (%ENV, PGCONNECT_TIMEOUT => 2, %$environment);
	my ($in, $out, $err) = ('', '', '');
	my $harness = IPC::Run::start([ program(shift @command), @command ], \$in, \$out, \$err,
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	$harness->finish;
	return ($harness->result(0), "$out$err");
}

my (@told, @silent, @accepted);
sub look
{
	my ($what, $status, $text) = @_;
	push @told, "$what: $text" if $text =~ /\Q$secret\E/;
	push @silent, $what if $status && $text !~ /\S/;
	push @accepted, $what unless $status;
	return;
}
for my $target (@targets)
{
	look("pawl --database $target", said({}, 'pawl', '--database', $target, 'health'));
	look("pawl --databse $target", said({}, 'pawl', '--databse', $target, 'health')) if $target =~ /=|@/;
	look("pawl $target", said({}, 'pawl', $target)) if $target =~ /=|@/;
	look("pawld --databse $target", said({}, 'pawld', '--databse', $target, '--check')) if $target =~ /=|@/;
	look("pawld --database $target", said({}, 'pawld', '--database', $target, '--once'));
	look("pawld --api-database $target",
		said({}, 'pawld', '--api-database', $target, '--once', '--database', 'host=127.0.0.1 port=1'));
	look("PAWLD_DATABASE=$target", said({ PAWLD_DATABASE => $target }, 'pawld', '--once'));
}
for my $broker ("amqp://pawl:$secret\@127.0.0.1:notaport", "amqp://pawl:$secret\@\@127.0.0.1:1/",
	"amqp:/pawl:$secret\@127.0.0.1", $secret)
{
	look("--broker $broker", said({}, 'pawld', '--provider', 'rabbitmq', '--broker', $broker, '--check'));
	look("PAWLD_BROKER=$broker", said({ PAWLD_PROVIDER => 'rabbitmq', PAWLD_BROKER => $broker }, 'pawld', '--once',
		'--database', 'host=127.0.0.1 port=1'));
}
is(join("\n", @told), '', 'no message has the password');
is(join("\n", @silent), '', 'each says something');
is(join("\n", @accepted), '', 'and none is taken for good');

my ($status, $text) = said({}, 'pawld', '--database', "host=127.0.0.1 port=1 password=$secret", '--check');
is($status, 2, 'a password in a flag is rejected');
like($text, qr/PGPASSFILE/, 'with a word about where it belongs');
is((said({}, 'pawl', '--database', "postgresql://a:$secret\@127.0.0.1:1/x", 'health'))[0], 2,
	'by the command line, too');
is((said({ PAWLD_DATABASE => "host=127.0.0.1 port=1 password=$secret" }, 'pawld', '--check'))[0], 0,
	'in the environment it is taken');
unlike(join('', map { (said({}, $_, '--help'))[1] } qw(pawl pawld)), qr/password=/, 'no help says otherwise');

# A daemon that cannot log in: its log, its page of health and its metrics.
my $node = new_cluster('passwords');
my $run = do {
	local $ENV{PAWLD_DATABASE} = "postgresql://stranger:$secret\@127.0.0.1:1/shop";
	begin_program($node, 'pawld', '--http', '127.0.0.1:0', '--log-level', 'debug', '--longest-poll-ms', '50');
};
wait_until(sub { $run->{harness}->pump_nb; $run->{err} =~ /no connection/ && $run->{err} =~ /listening port=\d+/ },
	'the daemon to complain');
my ($port) = $run->{err} =~ /listening port=(\d+)/;
my $served = join '', map { (http_get($port, $_))[1] } qw(/healthz /readyz /metrics);
like($served, qr/has no connection/, 'what it serves says what is wrong');
unlike($served . $run->{err}, qr/\Q$secret\E/, 'without the password, as its log');
end_program($run, 'TERM');
done_testing();
