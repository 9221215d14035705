# Chromium without a window, spoken to over WebDriver.
package Browser;

use strict;
use warnings;
use File::Temp;
use HTTP::Tiny;
use IPC::Run;
use JSON::PP;
use MIME::Base64;
use PawlTest;
use Test::More;

my %running;
my $element = 'element-6066-11e4-a52e-4f735466cecf';

# A browser that is gone when the test is. `network`: with a log of what it sends and gets.
sub new
{
	my ($class, %with) = @_;
	my $self = bless { http => HTTP::Tiny->new(timeout => 120), json => JSON::PP->new->utf8->allow_nonref,
			folder => File::Temp->newdir }, $class;
	local $ENV{HOME} = "$self->{folder}";
	$self->begin_driver;
	my $made = $self->ask('POST', '/session', { capabilities => { alwaysMatch => {
		'goog:chromeOptions' =>
		{ args => [ '--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run',
			'--disable-background-networking',
			'--disable-component-update', '--window-size=' . ($with{size} // '1280,900'),
			"--user-data-dir=$self->{folder}/profile" ] },
		'goog:loggingPrefs' => { browser => 'ALL', $with{network} ? (performance => 'ALL') : () } } } });
	$self->{session} = "/session/$made->{sessionId}";
	return $self;
}

# A chromedriver that ends before it listens is begun again, and what it said is shown.
sub begin_driver
{
	my ($self) = @_;
	for (1 .. 3)
	{
		@$self{qw(out err)} = ('', '');
		$self->{driver} = IPC::Run::start([ 'setsid', 'chromedriver', '--port=0' ], '<', \'', '>', \$self->{out},
			'2>', \$self->{err});
		$self->{pid} = $self->{driver}{KIDS}[0]{PID};
		$running{ $self->{pid} } = $self;
		my $ended;
		wait_until(sub {
			eval { $self->{driver}->pump_nb; 1 } or return $ended = 1;
			$self->{out} =~ /successfully on port (\d+)/ ? ($self->{port} = $1) : 0
		}, 'chromedriver: ' . $self->{out});
		return unless $ended;
		eval { $self->{driver}->finish };
		delete $running{ $self->{pid} };
		diag("chromedriver has ended: $self->{out}$self->{err}");
	}
	die 'chromedriver does not run';
}

# Also a test that dies leaves none behind.
END { local ($?, $@); $_->end for values %running }

sub end
{
	my ($self) = @_;
	eval { $self->{http}->request('DELETE', "http://127.0.0.1:$self->{port}$self->{session}") if $self->{session} };
	# with the browser, which lives on when no session was made
	kill 'TERM', -$self->{pid};
	eval { $self->{driver}->finish };
	delete $running{ $self->{pid} };
	return;
}

sub ask
{
	my ($self, $method, $path, $body) = @_;
	my %options = defined $body
		? (headers => { 'Content-Type' => 'application/json' }, content => $self->{json}->encode($body)) : ();
	my $got = $self->{http}->request($method, "http://127.0.0.1:$self->{port}$path", \%options);
	my $value = eval { $self->{json}->decode($got->{content})->{value} };
	die "WebDriver $method $path: " . (ref $value ? "$value->{error}: $value->{message}" : $got->{content}) . "\n"
		unless $got->{success};
	return $value;
}

sub call { my ($self, $method, $path, $body) = @_; return $self->ask($method, $self->{session} . $path, $body) }

sub go { my ($self, $url) = @_; return $self->call('POST', '/url', { url => $url }) }

# Runs a script in the page and returns what it returns.
sub run
{
	my ($self, $script, @arguments) = @_;
	return $self->call('POST', '/execute/sync', { script => $script, args => \@arguments })
}

sub devtools
{
	my ($self, $command, %parameters) = @_;
	return $self->call('POST', '/goog/cdp/execute', { cmd => $command, params => \%parameters })
}

# Elements by a selector, or those of them whose text has it in it.
sub all
{
	my ($self, $css, $text) = @_;
	my $found = $self->run('const [css, text] = arguments; return [...document.querySelectorAll(css)].filter(e => '
			. '!text || (e.textContent + " " + (e.getAttribute("aria-label") ?? "")).includes(text))', $css, $text);
	return map { $_->{$element} } @$found;
}

# Waits until there is one; its handle.
sub find
{
	my ($self, $css, $text) = @_;
	my @found;
	wait_until(sub { @found = eval { $self->all($css, $text) } },
		"$css" . (defined $text ? " with \"$text\"" : '') . ' in the page');
	return $found[0];
}

sub click
{
	my ($self, $css, $text) = @_;
	# a page that is drawn anew between the look and the click is looked at again
	my $problem;
	wait_until(sub { eval {
		$self->call('POST', '/element/' . $self->find($css, $text) . '/click', {});
		1
	} or do {
		$problem = $@;
		0
	} }, "a click on $css " . ($text // ''));
	return;
}

sub type
{
	my ($self, $css, $text) = @_;
	return $self->call('POST', '/element/' . $self->find($css) . '/value', { text => $text })
}

# Keys to whatever has the focus: Tab, Enter, Escape, or text.
my %keys = (Tab => "\x{E004}", Enter => "\x{E007}", Escape => "\x{E00C}", Space => ' ', Shift => "\x{E008}");
sub press
{
	my ($self, @names) = @_;
	my @actions = map {
		my $k = $keys{$_} // $_;
		({ type => 'keyDown', value => $k }, { type => 'keyUp', value => $k })
	} @names;
	return $self->call('POST', '/actions', { actions => [ { type => 'key', id => 'keys', actions => \@actions } ] });
}

# Opens a tab as a user does with a link: it has the session of this one. Its handle.
sub tab
{
	my ($self, $address) = @_;
	my %before = map { $_ => 1 } $self->tabs;
	$self->run('window.open(arguments[0])', $address);
	my $new;
	wait_until(sub { ($new) = grep { !$before{$_} } $self->tabs }, 'a new tab');
	return $new;
}

sub tabs { my ($self) = @_; return @{ $self->call('GET', '/window/handles') } }
sub current_tab { my ($self) = @_; return $self->call('GET', '/window') }
sub to_tab { my ($self, $handle) = @_; return $self->call('POST', '/window', { handle => $handle }) }
sub close_tab { my ($self) = @_; return $self->call('DELETE', '/window') }

# What axe-core finds in the page: one line for each rule, with the first elements.
my $axe;
sub inaccessible
{
	my ($self) = @_;
	$axe //= do {
		my $file = "$ENV{PAWL_TOP}/build/programs/client/console/work/node_modules/axe-core/axe.min.js";
		open(my $in, '<:raw:encoding(UTF-8)', $file) or die "$file: $!";
		local $/;
		<$in>
	};
	$self->run($axe) unless $self->run('return typeof axe') eq 'object';
	my $found = $self->run('return axe.run(document).then(r => r.violations.map(v => v.id + ": " + v.nodes.slice(0, 3)'
			. '.map(n => n.target.join(" ") + " " + n.html.slice(0, 160) + " " + n.failureSummary).join(" | ")))');
	return @$found;
}

# Calls a function for light and wide, and for dark and on a phone; with PAWL_FULL=1 for both widths in both. It is
# given the name of the theme and the width.
sub each_look
{
	my ($self, $check) = @_;
	my @looks = ([ 'light', 1400 ], [ 'dark', 390 ]);
	push @looks, [ 'dark', 1400 ], [ 'light', 390 ] if $ENV{PAWL_FULL};
	for my $look (@looks)
	{
		my ($theme, $width) = @$look;
		$self->devtools('Emulation.setDeviceMetricsOverride', width => $width, height => 900, deviceScaleFactor => 1,
			mobile => $width < 800 ? JSON::PP::true : JSON::PP::false);
		$self->devtools('Emulation.setEmulatedMedia',
			features => [ { name => 'prefers-color-scheme', value => $theme } ]);
		$check->($theme, $width);
	}
	$self->devtools('Emulation.clearDeviceMetricsOverride');
	$self->devtools('Emulation.setEmulatedMedia', features => []);
	return;
}

# What the page has and what the browser said, for a test that dies.
sub tells
{
	my ($self) = @_;
	return eval { join("\n", $self->run('return location.href'), $self->text('body'),
			map { $_->{message} } $self->log_of('browser')) } // $@;
}

sub text { my ($self, $css) = @_; return $self->run('const e = document.querySelector(arguments[0]); return e ? '
		. 'e.innerText ?? e.textContent : ""', $css // 'main') }

# Waits until the text of the page has it.
sub sees
{
	my ($self, $what, $css) = @_;
	wait_until(sub {
		my $text = eval { $self->text($css) } // '';
		ref $what ? $text =~ $what : index($text, $what) >= 0
	}, "\"$what\" in the page");
	return 1;
}

sub log_of { my ($self, $kind) = @_; return @{ $self->call('POST', '/se/log', { type => $kind }) } }

# The whole page, also what is below the window; of a dialog the window, because it stands in it. Only of a test that
# dies, and with PAWL_FULL=1: to draw them takes a quarter of what a test of the console takes.
sub picture
{
	my ($self, $file) = @_;
	return unless $ENV{PAWL_FULL} || $file =~ /died/;
	open(my $out, '>:raw', $file) or die "$file: $!";
	my $page = $self->devtools('Page.captureScreenshot', format => 'png', captureBeyondViewport =>
		$self->all('dialog[open]') ? JSON::PP::false : JSON::PP::true);
	print $out decode_base64($page->{data});
	close $out or die "$file: $!";
	return;
}

1;
