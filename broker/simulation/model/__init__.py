"""A grid in a closed loop: queues, links, storages and tasks in virtual time, and the policy that steers them."""
