# A RabbitMQ of the test's own: on the loopback interface, with its own name, ports,
# folder and name server (epmd), all of which end with it.
package Broker;

use strict;
use warnings;
use File::Basename qw(basename);
use File::Copy qw(copy);
use File::Path qw(make_path remove_tree);
use IO::Socket::INET;
use IPC::Run;
use PawlTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($installed) = glob('/usr/lib/rabbitmq/lib/rabbitmq_server-*');
my $user = 'pawl';
my $password = 'never-to-be-told';

# A test that dies leaves nothing behind. What is started as the broker is a script; the broker is its child.
my %running;
sub children { my ($pid) = @_; return split ' ', eval { slurp_file("/proc/$pid/task/$pid/children") } // '' }
END { local $?; CORE::kill 'KILL', map { (children($_), $_) } keys %running if %running }

sub there { return defined $installed && -x "$installed/sbin/rabbitmq-server" }

# conf: more lines of its configuration.
sub new
{
	my ($class, %options) = @_;
	my $folder = PostgreSQL::Test::Utils::tempdir_short();
	my %self = (folder => $folder,
		map { $_ => PostgreSQL::Test::Cluster::get_free_port() } qw(port tls_port distribution epmd_port));
	my $self = bless \%self, $class;
	$self->make_home;
	$self->make_certificates;
	append_to_file("$folder/rabbitmq.conf", <<"CONF");
listeners.tcp.1 = 127.0.0.1:$self->{port}
listeners.ssl.1 = 127.0.0.1:$self->{tls_port}
ssl_options.cacertfile = $folder/authority.pem
ssl_options.certfile = $folder/server.pem
ssl_options.keyfile = $folder/server.key
ssl_options.verify = verify_none
default_vhost = work
default_user = $user
default_pass = $password
vm_memory_high_watermark.absolute = 256MB
disk_free_limit.absolute = 10MB
log.file.level = warning
log.console = false
CONF
	append_to_file("$folder/rabbitmq.conf", $options{conf}) if $options{conf};
	append_to_file("$folder/plugins", "[].\n");
	$self->{environment} = {
		HOME => $folder,
		PATH => $ENV{PATH},
		RABBITMQ_NODENAME => "pawl$$\@localhost",
		RABBITMQ_CONF_ENV_FILE => "$folder/no-such-file",
		RABBITMQ_CONFIG_FILE => "$folder/rabbitmq.conf",
		RABBITMQ_ENABLED_PLUGINS_FILE => "$folder/plugins",
		RABBITMQ_MNESIA_BASE => "$folder/data",
		RABBITMQ_LOG_BASE => "$folder/log",
		RABBITMQ_DIST_PORT => $self->{distribution},
		RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS =>
		'-kernel inet_dist_use_interface {127,0,0,1} -start_epmd false +S 1:1 +sbwt none',
		RABBITMQ_CTL_ERL_ARGS => '-kernel inet_dist_use_interface {127,0,0,1} -start_epmd false',
		ERL_EPMD_ADDRESS => '127.0.0.1',
		ERL_EPMD_PORT => $self->{epmd_port} };
	$self->{epmd} = $self->begin('epmd', '-address', '127.0.0.1', '-port', $self->{epmd_port});
	# a broker that finds none would begin one that outlives it
	wait_until(sub { listens($self->{epmd_port}) }, 'epmd');
	return $self;
}

# RabbitMQ as it is installed, without the plugins: it looks for each of its modules in the folders of all of them, and
# begins in half the time when they are not there. Its scripts are copied because they follow links to where they are.
sub make_home
{
	my ($self) = @_;
	$self->{home} = "$self->{folder}/home";
	make_path("$self->{home}/sbin", "$self->{home}/plugins");
	symlink "$installed/escript", "$self->{home}/escript" or die "escript: $!";
	for my $script (glob("$installed/sbin/*"))
	{
		my $copy = "$self->{home}/sbin/" . basename($script);
		copy($script, $copy) && chmod 0755, $copy or die "$script: $!";
	}
	for my $library (grep { basename($_) !~ /^rabbitmq_(?!prelaunch)/ } glob("$installed/plugins/*-*"))
	{
		symlink $library, "$self->{home}/plugins/" . basename($library) or die "$library: $!";
	}
	return;
}

# An authority, and a server called localhost that it vouches for.
sub make_certificates
{
	my ($self) = @_;
	my $at = $self->{folder};
	append_to_file("$at/names", "subjectAltName=DNS:localhost,IP:127.0.0.1\n");
	for my $command (
		[qw(req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=pawl-test-authority), '-keyout', "$at/authority.key",
			'-out', "$at/authority.pem"],
		[qw(req -newkey rsa:2048 -nodes -subj /CN=localhost), '-keyout', "$at/server.key", '-out', "$at/server.csr"],
		[qw(x509 -req -days 2 -CAcreateserial), '-CA', "$at/authority.pem", '-CAkey', "$at/authority.key", '-in',
			"$at/server.csr", '-extfile', "$at/names",
			'-out', "$at/server.pem"])
	{
		my $said = '';
		IPC::Run::run(['openssl', @$command], '<', \'', '>', \$said, '2>', \$said) or die "openssl: $said";
	}
	return;
}

sub begin
{
	my ($self, @command) = @_;
	local %ENV = %{ $self->{environment} };
	my %run = (said => '');
	$run{harness} = IPC::Run::start(\@command, '<', \'', '>', \$run{said}, '2>', \$run{said});
	$run{pid} = $run{harness}{KIDS}[0]{PID};
	$running{ $run{pid} } = 1;
	return \%run;
}

sub ended
{
	my ($run) = @_;
	eval { $run->{harness}->finish };
	delete $running{ $run->{pid} };
	return;
}

sub listens
{
	my ($port) = @_;
	return defined IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Timeout => 5)
}

sub start
{
	my ($self) = @_;
	$self->{server} = $self->begin("$self->{home}/sbin/rabbitmq-server");
	my $listens = sub {
		eval { $self->{server}{harness}->pump_nb; 1 } or die "the broker ends: $self->{server}{said}";
		return listens($self->{tls_port});
	};
	eval { wait_until($listens, 'the broker'); 1 } or die "no broker: $@\n$self->{server}{said}\n" . join "\n",
		map { slurp_file($_) } glob("$self->{folder}/log/*.log");
	($self->{pid}) = children($self->{server}{pid});
	return;
}

# As by a power cut.
sub kill
{
	my ($self) = @_;
	CORE::kill 'KILL', $self->{pid};
	ended($self->{server});
	return;
}

# Neither dead nor alive; until it is thawed.
sub freeze { my ($self) = @_; CORE::kill 'STOP', $self->{pid}; return }
sub thaw { my ($self) = @_; CORE::kill 'CONT', $self->{pid}; return }

# With everything that it had.
sub forget { my ($self) = @_; remove_tree("$self->{folder}/data"); return }

sub stop
{
	my ($self) = @_;
	$self->{server}{harness}->signal('TERM');
	ended($self->{server});
	$self->{epmd}{harness}->signal('KILL');
	ended($self->{epmd});
	return;
}

sub control
{
	my ($self, @command) = @_;
	local %ENV = %{ $self->{environment} };
	my ($out, $err) = ('', '');
	IPC::Run::run(["$self->{home}/sbin/rabbitmqctl", '--quiet', @command], '<', \'', '>', \$out, '2>', \$err)
		or die "rabbitmqctl @command: $out$err";
	chomp $out;
	return $out;
}

# How many messages a queue has, also those that a worker has received and not acknowledged; undef: there is no such
# queue. Asked of the broker itself: to begin an Erlang as `control` does takes a second of a processor.
sub messages
{
	my ($self, $queue) = @_;
	local %ENV = %{ $self->{environment} };
	my ($out, $err) = ('', '');
	my $question = <<"ERLANG";
case rabbit_amqqueue:lookup(rabbit_misc:r(<<"work">>, queue, <<"$queue">>)) of
    {ok, Q} -> rabbit_amqqueue:info(Q, [messages]);
    {error, not_found} -> none
end.
ERLANG
	chomp(my $cookie = slurp_file("$self->{folder}/.erlang.cookie"));
	IPC::Run::run([ 'erl_call', '-address', "127.0.0.1:$self->{distribution}", '-R', '-c', $cookie, '-e' ],
		'<', \$question, '>', \$out, '2>', \$err) or die "erl_call: $out$err";
	return $out eq '{ok, none}' ? undef : $out =~ /^\{ok, \[\{messages, ?(\d+)\}\]\}/ ? $1 : die "erl_call: $out$err";
}

sub url { my ($self) = @_; return "amqp://$user:$password\@127.0.0.1:$self->{port}/work" }
sub tls_url { my ($self) = @_; return "amqps://$user:$password\@localhost:$self->{tls_port}/work" }
sub authority { my ($self) = @_; return "$self->{folder}/authority.pem" }
sub password { return $password }

1;
