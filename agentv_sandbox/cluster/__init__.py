"""A run over many workers with Dask distributed.

``address``      ``--cluster`` and the address of ``agentv-sandbox worker``; encryption
``records``      what travels
``packing``      coordinator: what of a run travels, and what of it cannot
``site``         coordinator: gathers workers, has them run jobs, takes their results
``coordinator``  coordinator: membership of workers, attempts of jobs
``intake``       coordinator: results and contents from workers, checked
``session``      worker: one run, rebuilt from what travelled
``hosting``      worker: the process, what it answers

All order stays in ``pipeline/schedule.py``; Dask carries messages, knows who is there and counts slots.
"""
