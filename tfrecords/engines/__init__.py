"""Jobs -> results: on processes, Apache Spark or Apache Beam."""
