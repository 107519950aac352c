"""The admin API: what the operator sees and changes over HTTP, one module per subject.

The modules `..._description` are imported when somebody asks for the OpenAPI document.
"""
