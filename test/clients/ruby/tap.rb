# TAP for the tests of Ruby's clients.
$count = 0
$failed = false

def ok(passed, name, seen = nil)
  $count += 1
  unless passed
    $failed = true
    warn "# have: #{seen.inspect}"
  end
  puts "#{passed ? 'ok' : 'not ok'} #{$count} - #{name}"
end

def equal(have, want, name)
  ok(have == want, name, have)
end

def end_tests
  puts "1..#{$count}"
  exit($failed ? 1 : 0)
end
