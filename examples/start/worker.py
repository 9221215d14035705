import pawl

worker = pawl.Worker("dbname=shop", pawl.Table("letters", success="finish", failure="fail"))


@worker.on("job")
def send(job):
    print(f"dear {job.context['recipient']}\n", end="", flush=True)


worker.run()  # until SIGTERM or Ctrl-C, which drains
