"""A run over many workers with Dask distributed.

``address``      ``--cluster`` and the address of ``agentv-sandbox worker``; encryption
``records``      what travels
``packing``      coordinator: what of a run travels, and what of it cannot
``site``         coordinator: gathers workers, has them run jobs, takes their results
``coordinator``  coordinator: who is there, who gets which job, what follows when a worker is lost
``link``         coordinator: one worker, what is known of it and how it is asked
``attempts``     coordinator: one job on its way to a row
``intake``       coordinator: results and contents from workers, checked
``session``      worker: one run, rebuilt from what travelled
``sending``      worker: what of a result goes to the coordinator
``hosting``      worker: the process, what it answers

All order stays in ``runs/schedule.py``; Dask carries messages, knows who is there and counts slots.
"""
