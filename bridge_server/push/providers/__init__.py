"""Push providers: FCM, APNs and Web Push behind one interface."""
