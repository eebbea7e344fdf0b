"""What changes in PanDA's decisions with another panda-server: both on the same fresh grids, beside the same profiles.

make panda-drift PANDA_SERVER=1.0.5            # a release
make panda-drift PANDA_SERVER=/path/to/clone   # a checkout of panda-server, with the commits that touched its brokers
"""
