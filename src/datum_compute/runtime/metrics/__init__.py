"""Counters, gauges and histograms of controllers, queues, clusters and client calls."""
