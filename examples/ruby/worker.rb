# A worker in Ruby on the table of jobs of the README, by the gem pg alone: ruby worker.rb (PGDATABASE and so on say
# where). SIGTERM ends it; if it crashes or loses the database, pawl.reap returns its jobs, and it is started again.
%w[json pg securerandom].each { |name| require name }

LEASE = '60 s'.freeze
ME = SecureRandom.uuid # the processor

# The work of one job, a row of the table: the result is logged; an exception is a failure, which pawl retries.
def handle(job)
  { sent: "parcel #{job.fetch('id')}" }
end

def ask(connection, call, *values)
  connection.exec_params("select * from #{call}", values).to_a
end

def outcome(job)
  ['finish', handle(job)]
rescue StandardError => e
  ['fail', { error: e.message }]
end

stopping = false
%w[TERM INT].each { |name| trap(name) { stopping = true } }
heartbeats = PG.connect
Thread.new { loop { sleep 20; ask(heartbeats, "pawl.heartbeat('jobs', $1, $2)", ME, LEASE) } }
  .abort_on_exception = true
connection = PG.connect
until stopping
  jobs = ask(connection, 'pawl.claim(null::jobs, processor => $1, lease => $2, batch => 10)', ME, LEASE)
  sleep 0.2 if jobs.empty?
  jobs.take_while { !stopping }.each do |job|
    event, notes = outcome(job)
    ask(connection, "pawl.fire('jobs', $1, $2, $3, processor => $4, token => $5)", job['id'], event, notes.to_json, ME,
        job['token'])
  rescue PG::Error => e
    raise unless %w[PW004 PW005].include?(e.result&.error_field(PG::PG_DIAG_SQLSTATE)) # another worker has the job
  end
end
ask(connection, "pawl.abandon('jobs', $1)", ME)
