"""What several tests use: tables of cases, small problems and data sets, processes to start."""
